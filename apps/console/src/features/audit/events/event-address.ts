/** An event in the address: its id, `77.1204`, and where it is not of this datacenter, `77.1204@fra`. */
interface EventAddress {
  readonly id: string;
  readonly datacenter?: string;
}

const ADDRESS = /^(\d{1,18}\.\d{1,18})(?:@(.+))?$/u;

export function eventAddress(event: { id: string; datacenter: string }, here: string): string {
  return event.datacenter === here ? event.id : `${event.id}@${event.datacenter}`;
}

/** Undefined for anything else. */
export function parseEventAddress(text: string | null): EventAddress | undefined {
  const [, id, datacenter] = ADDRESS.exec(text ?? '') ?? [];
  if (id === undefined) return undefined;
  return datacenter === undefined ? { id } : { id, datacenter };
}

/** The id just before one, after which it is the next that is there. */
export function eventBefore(id: string): string {
  const [epoch = '0', number = '1'] = id.split('.');
  return `${epoch}.${String(BigInt(number) - 1n)}`;
}
