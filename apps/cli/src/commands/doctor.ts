import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import type { Finding } from '../doctor/finding.ts';
import { EXIT_CODES } from '../failures.ts';
import type { Style } from '../output/text.ts';

/** `leasehold doctor`: checks everything, and says how to correct what is wrong. */
export function addDoctor(cli: Cli, parent: Command): void {
  cli
    .leaf(
      parent,
      'doctor',
      'Check the configuration, the database, the clock, etcd, the controller, the other datacenters, the drones, the console',
    )
    .action(async () => {
      const { examine } = await import('../doctor/examine.ts');
      const findings = await examine(cli.environment);
      const isWell = findings.every((finding) => finding.state !== 'wrong');
      cli.show({ isWell, findings }, () => doctorText(findings, cli.style));
      if (!isWell) cli.exitCode = EXIT_CODES.refused;
    });
}

function doctorText(findings: readonly Finding[], style: Style): string {
  const width = Math.max(...findings.map((finding) => finding.subject.length));
  const lines = findings.map((finding) => findingText(finding, width, style));
  const wrongCount = findings.filter((finding) => finding.state === 'wrong').length;
  const verdict =
    wrongCount === 0 ? 'Nothing is wrong.' : `${String(wrongCount)} of these must be corrected.`;
  return `${lines.join('\n')}\n\n${verdict}`;
}

function findingText(finding: Finding, width: number, style: Style): string {
  const { subject, state, text, advice } = finding;
  const signs = {
    well: style.good('ok   '),
    unsure: style.warn('note '),
    wrong: style.bad('WRONG'),
    skipped: style.faint('-    '),
  };
  const line = `${signs[state]}  ${subject.padEnd(width)}  ${text}`;
  return advice === undefined
    ? line
    : `${line}\n${' '.repeat(width + 9)}${style.strong('->')} ${advice}`;
}
