/** The section of a code in `docs/errors.md`, as an address has it. */
export function anchorOfCode(code: string): string {
  return code.replaceAll('.', '');
}
