// Dialogs: confirmation of irreversible actions, and closing by a click outside.
import { make } from './dom.ts';

/** Asks for confirmation of an irreversible action; `yes` is the label of its button. */
export async function confirm({ title, text, yes }: { title: string; text: string; yes: string }): Promise<boolean> {
  const button = (value: string, className: string, label: string): HTMLButtonElement =>
    Object.assign(make('button', className, label), { type: 'submit', value });
  const heading = Object.assign(make('h2', '', title), { id: 'confirm-title' });
  const question = Object.assign(make('p', '', text), { id: 'confirm-text' });
  const form = make(
    'form',
    '',
    heading,
    question,
    make('div', 'actions', button('', 'quiet', 'Cancel'), button('yes', 'primary danger', yes)),
  );
  form.method = 'dialog';
  const dialog = make('dialog', '', form);
  dialog.id = 'confirm';
  dialog.setAttribute('aria-labelledby', heading.id);
  dialog.setAttribute('aria-describedby', question.id);
  closeOutside(dialog);
  document.querySelector('main')!.append(dialog);
  dialog.showModal();
  await new Promise((done) => dialog.addEventListener('close', done, { once: true }));
  dialog.remove();
  return dialog.returnValue === 'yes';
}

/** Closes a dialog by a click outside of it. */
export function closeOutside(dialog: HTMLDialogElement): void {
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
}
