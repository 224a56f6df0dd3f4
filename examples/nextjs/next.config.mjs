/** The app needs no server: `next build` writes plain files into out/. */
export default { output: 'export' };
