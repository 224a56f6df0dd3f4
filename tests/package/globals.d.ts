// The globals of page.ts, as the tests write about them in the page.
import type { UseChat } from 'millrace/react';
import type { globals } from './page.ts';

type Globals = typeof globals;
declare global {
  var ai: Globals['ai'];
  var millrace: Globals['millrace'];
  var OpenAI: Globals['OpenAI'];
  var mount: Globals['mount'];
  var unmount: Globals['unmount'];
  var until: Globals['until'];
  var chat: UseChat;
}
