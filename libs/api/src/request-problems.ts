import type { ZodError, core } from 'zod';

/** A caller that sent a thousand wrong fields learns of the first few. */
const PROBLEMS_MAX = 10;

/** What is wrong with a request, in one line that names each field and says what is allowed. */
export function requestProblems(error: ZodError): {
  message: string;
  details: { problems: { field: string; problem: string }[] };
} {
  const problems = error.issues.slice(0, PROBLEMS_MAX).flatMap(problemsOf);
  const message = problems.map(({ field, problem }) => `${field}: ${problem}`).join('; ');
  return { message, details: { problems } };
}

function problemsOf(issue: core.$ZodIssue): { field: string; problem: string }[] {
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, PROBLEMS_MAX).map((key) => ({
      field: fieldOf([...issue.path, key]),
      problem: 'is not a known field',
    }));
  }
  return [{ field: fieldOf(issue.path), problem: issue.message }];
}

/** `renewals[3].leaseId`; the request itself is `input`. */
function fieldOf(path: readonly PropertyKey[]): string {
  let field = '';
  for (const step of path) {
    if (typeof step === 'number') field += `[${String(step)}]`;
    else field += field === '' ? String(step) : `.${String(step)}`;
  }
  return field === '' ? 'input' : shortened(field);
}

/** A field's name is the caller's own text: it is shortened, and control characters are replaced. */
function shortened(field: string): string {
  const plain = field.replaceAll(/\p{Cc}/gu, '?');
  return plain.length > 120 ? `${plain.slice(0, 120)}…` : plain;
}
