import { userInfo } from 'node:os';

/** The name of the user that runs this process, or its number: containers often run as one that has no name. */
export function ownUserName(read: () => { readonly username: string } = userInfo): string {
  try {
    return read().username;
  } catch {
    return `uid ${String(process.getuid?.() ?? 'unknown')}`;
  }
}
