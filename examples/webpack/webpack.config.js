import HtmlWebpackPlugin from 'html-webpack-plugin';

export default {
  entry: './src/chat.js',
  plugins: [new HtmlWebpackPlugin({ template: './src/index.html' })],
};
