/** The build puts documents into scripts as text. */
declare module '*.md' {
  const text: string;
  export default text;
}
