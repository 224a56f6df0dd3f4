// The Worker that reads PDF files: pdf.js unchanged.
import 'pdfjs-dist/legacy/build/pdf.worker.mjs';
