// The build puts style sheets that scripts import beside them.
declare module '*.css';
