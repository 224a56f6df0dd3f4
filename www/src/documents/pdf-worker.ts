// What reads PDF files, in a Worker: pdf.js as it is.
import 'pdfjs-dist/legacy/build/pdf.worker.mjs';
