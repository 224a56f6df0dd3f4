// Files of a model can be dropped anywhere on the page.
import { get } from '../shared/dom.ts';
import { fromFiles, type Model } from './loader.ts';

/** Loads what is dropped, wherever that is. */
export function setUpDrop(onModel: (model: Model) => void): void {
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
    if (files.length === 0) return;
    get<HTMLDialogElement>('models').close();
    onModel(fromFiles(files));
  });
}
