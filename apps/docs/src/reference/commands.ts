/** Every command, with the help that it prints. */
import type { Command } from 'commander';
import { createCli } from '../../../cli/src/cli.ts';
import { createProgram } from '../../../cli/src/program.ts';
import { writtenText } from '../markdown.ts';

/** What a block of the site holds beside the outline. */
const HELP_WIDTH = 84;

/** A command by its whole name, with its help. */
interface Described {
  readonly name: string;
  readonly summary: string;
  readonly help: string;
}

/** The page, one section for each group. */
export function commandsPage(): string {
  const { program, printed } = wholeProgram();
  const groups = visibleIn(program).map((command) => {
    const own = helpOf(command, printed);
    const leaves = command.commands.length === 0 ? [] : leavesOf(command, printed);
    const texts = leaves.map(
      ({ name, summary, help }) => `### \`leasehold ${name}\`\n\n${summary}.\n\n${block(help)}`,
    );
    const head = `## \`leasehold ${command.name()}\`\n\n${command.description()}.`;
    return `${[head, block(own), ...texts].join('\n\n')}\n`;
  });
  return `# Commands

${writtenText('docs/reference/commands.md')}

## All commands

\`\`\`text
${helpOf(program, printed).trimEnd()}
\`\`\`

${groups.join('\n')}`;
}

function block(help: string): string {
  return `\`\`\`text\n${help.trimEnd()}\n\`\`\``;
}

/** Every command without commands of its own, by its whole name: `keys ls`. */
export function allCommands(): string[] {
  const { program, printed } = wholeProgram();
  return visibleIn(program)
    .flatMap((command) => leavesOf(command, printed))
    .map(({ name }) => name);
}

/** What is wrong with a command as it is typed, after `leasehold`; undefined when it and its options exist. */
export function commandProblem(words: readonly string[]): string | undefined {
  let command = wholeProgram().program;
  // A command takes the options of its groups too.
  const known = ['--help'];
  const rest = [...words];
  // A group by itself prints its help, or does something with its own options.
  while (command.commands.length > 0 && /^[^-]/u.test(rest[0] ?? '')) {
    const name = rest.shift() ?? '';
    const next = command.commands.find((one) => one.name() === name);
    if (next === undefined) return `there is no command \`${words.join(' ')}\``;
    command = next;
    known.push(...command.options.flatMap(({ long }) => long ?? []));
  }
  const end = rest.indexOf('--');
  const options = (end < 0 ? rest : rest.slice(0, end)).filter((word) => /^--\w/u.test(word));
  const unknown = options.find((option) => !known.includes(option.replace(/=.*/u, '')));
  return unknown === undefined ? undefined : `\`${words.join(' ')}\` has no option ${unknown}`;
}

function wholeProgram() {
  let text = '';
  const none = new AbortController().signal;
  const cli = createCli(
    {
      stdout: (more) => {
        text += more;
      },
      stderr: () => undefined,
      readStdin: () => Promise.resolve(''),
      askSecret: () => Promise.resolve(undefined),
      environment: {},
      isTerminal: false,
      signal: () => none,
      onSignal: () => undefined,
    },
    [],
    false,
  );
  const printed = (print: () => void): string => {
    text = '';
    print();
    return text;
  };
  return { program: createProgram(cli), printed };
}

/** Without those that only Leasehold itself runs, and without `help`. */
function visibleIn(command: Command): Command[] {
  const shown = command.createHelp().visibleCommands(command);
  return command.commands.filter((child) => shown.includes(child));
}

function helpOf(command: Command, printed: (print: () => void) => string): string {
  command.configureHelp({ ...command.configureHelp(), helpWidth: HELP_WIDTH });
  return printed(() => {
    command.outputHelp();
  });
}

function leavesOf(command: Command, printed: (print: () => void) => string): Described[] {
  if (command.commands.length > 0) {
    return visibleIn(command).flatMap((child) =>
      leavesOf(child, printed).map((leaf) => ({ ...leaf, name: `${command.name()} ${leaf.name}` })),
    );
  }
  const help = helpOf(command, printed);
  return [{ name: command.name(), summary: command.description(), help }];
}
