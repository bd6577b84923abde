/** A file's text, as Vite hands it to a test. */
declare module '*?raw' {
  const text: string;
  export default text;
}
