import Chat from './chat';

export default function Page() {
  return (
    <main>
      <h1>Millrace</h1>
      <Chat />
    </main>
  );
}
