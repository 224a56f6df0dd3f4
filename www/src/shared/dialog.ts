// Dialogs: asking before something is lost, and leaving one by a click beside it.
import { get } from './dom.ts';

/** Asks in the page's dialog `confirm`. */
export async function confirm({ title, text, yes }: { title: string; text: string; yes: string }): Promise<boolean> {
  const dialog = get<HTMLDialogElement>('confirm');
  get('confirm-title').textContent = title;
  get('confirm-text').textContent = text;
  get('confirm-yes').textContent = yes;
  dialog.returnValue = '';
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener('close', done, { once: true }));
  return dialog.returnValue === 'yes';
}

/** Has a click beside a dialog close it. */
export function closeOutside(): void {
  for (const dialog of document.querySelectorAll('dialog')) {
    dialog.addEventListener('click', (event) => {
      if (event.target === dialog) dialog.close();
    });
  }
}
