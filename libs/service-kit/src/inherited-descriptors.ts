import { closeSync, readdirSync, readFileSync } from 'node:fs';

const FOLDER = '/proc/self/fd';
/** Close-on-exec, in octal, as `fdinfo` has the flags of an open file. */
const CLOSE_ON_EXEC = 0o2_000_000;

/**
 * Closes what the process that started this one had left open, except for the standard streams. Node
 * passes such descriptors on to every command that it starts, each with all that its file allows.
 * What Node has opened itself is marked to be closed by then, and stays. Does nothing without `/proc`.
 *
 * To be called first of all, in a process that starts programs of others.
 */
export function closeInheritedDescriptors(): void {
  for (const descriptor of openDescriptors()) {
    if (descriptor > 2 && isPassedOn(descriptor)) closeSync(descriptor);
  }
}

function openDescriptors(): number[] {
  try {
    return readdirSync(FOLDER).map(Number);
  } catch {
    return [];
  }
}

function isPassedOn(descriptor: number): boolean {
  try {
    const facts = readFileSync(`/proc/self/fdinfo/${String(descriptor)}`, 'utf8');
    const flags = /^flags:\s+([0-7]+)$/mu.exec(facts)?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & CLOSE_ON_EXEC) === 0;
  } catch {
    // That by which the folder was read is closed already.
    return false;
  }
}
