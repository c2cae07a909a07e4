/** The list of commands in the README, to check that each of them exists. */

/** The commands that a line names: `keys ls|show NAME` are `keys ls` and `keys show`. */
export function commandsIn(line: string): string[] {
  const [shown = ''] = line.trim().split(/ {2,}/u);
  return shown
    .replace(/^leasehold /u, '')
    .split(' | ')
    .flatMap((alternative) => {
      const words = alternative.split(' ');
      const end = words.findIndex((word) => !/^[a-z][a-z|-]*$/u.test(word));
      const path = end < 0 ? words : words.slice(0, end);
      const last = path.pop() ?? '';
      return last.split('|').map((name) => [...path, name].join(' '));
    });
}
