/** What the inputs say, in the words of the command line. */

/** @typedef {(name: string) => string} ReadInput reads an input; empty if it was not given. */

/** @type {Readonly<Record<string, string[]>>} */
const SUPERSEDE = { waiting: ['--supersede'], running: ['--supersede', '--supersede-running'] };

/**
 * The command of the command line that holds what the inputs name, without the command that runs meanwhile.
 * @param {ReadInput} input
 * @returns {string[]}
 * @throws {Error} that names the input and what is allowed.
 */
export function commandWords(input) {
  const [scope, environment] = [input('scope'), input('environment')];
  for (const name of ['url', 'token']) {
    if (input(name) === '') throw new Error(`The input ${name} must be given.`);
  }
  if ((scope === '') === (environment === '')) {
    throw new Error('Either the input scope or the input environment must be given.');
  }
  const common = ['ttl', 'wait'].flatMap((name) => optionOf(input, name));
  if (environment === '') {
    for (const name of ['action', 'version', 'supersede']) {
      if (input(name) !== '') throw new Error(`The input ${name} needs the input environment.`);
    }
    return ['leases', 'run', scope, ...common];
  }
  const about = ['--action', input('action') || 'deploy', ...optionOf(input, 'version')];
  return ['env', 'run', environment, ...about, ...common, ...supersedeWords(input('supersede'))];
}

/**
 * @param {ReadInput} input
 * @param {string} name
 */
function optionOf(input, name) {
  const value = input(name);
  return value === '' ? [] : [`--${name}`, value];
}

/** @param {string} value */
function supersedeWords(value) {
  if (value === '') return [];
  const words = Object.hasOwn(SUPERSEDE, value) ? SUPERSEDE[value] : undefined;
  if (words === undefined) {
    throw new Error(`The input supersede must be waiting or running, not "${value}".`);
  }
  return words;
}
