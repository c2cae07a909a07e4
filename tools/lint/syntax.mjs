/** Syntax that is restricted in more than one folder, and how long a function may be. */

export const PROCESS_ENV = {
  selector: 'MemberExpression[object.name="process"][property.name="env"]',
  message: "Only the app's config.ts reads the environment.",
};
export const UNSAFE_SQL = {
  selector: 'MemberExpression[property.name=/^\\$(query|execute)RawUnsafe$/]',
  message: 'Use the tagged $queryRaw: its parameters are never text of the statement.',
};
export const DEFAULT_EXPORT = {
  selector: 'ExportDefaultDeclaration',
  message: 'Export by name, so that it is called the same everywhere.',
};
export const WAIT_FOR_TIMEOUT = {
  selector: 'MemberExpression[property.name="waitForTimeout"]',
  message: 'Wait for what is to happen, not for time to pass.',
};
export const FUNCTION_LINES = { max: 70, skipBlankLines: true, skipComments: true };
