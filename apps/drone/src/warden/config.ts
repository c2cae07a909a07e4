/** Where this machine keeps its tools. All that the warden takes from its environment. */
export function searchPath(): string {
  return process.env['PATH'] ?? '';
}
