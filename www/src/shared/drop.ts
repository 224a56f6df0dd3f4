// Files can be dropped anywhere on a page.
import { get } from './dom.ts';

/** Calls `onFiles` with files that are dropped anywhere; #dropping is shown while they are dragged. */
export function setUpDrop(onFiles: (files: File[]) => void): void {
  const shade = get('dropping');
  const carriesFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false;
  document.addEventListener('dragover', (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    shade.hidden = false;
  });
  document.addEventListener('dragleave', (event) => {
    if (event.relatedTarget === null) shade.hidden = true;
  });
  document.addEventListener('drop', (event) => {
    shade.hidden = true;
    if (!carriesFiles(event)) return;
    event.preventDefault();
    const files = [...event.dataTransfer!.files];
    if (files.length > 0) onFiles(files);
  });
}
