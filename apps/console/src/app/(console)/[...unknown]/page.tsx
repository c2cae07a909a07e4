import { notFound } from 'next/navigation';

/** An address that leads nowhere: shown inside the frame, with the links to all pages beside it. */
export default function Page(): never {
  notFound();
}
