/** A part of the client that needs a controller: each use of it throws. */
export function notHere(name: string): never {
  throw new Error(
    `\`${name}\` needs a controller, and a test Leasehold has none: replace it in your test, or use a real one.`,
  );
}
