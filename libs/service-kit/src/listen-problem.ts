/**
 * Why an address cannot be listened on, and which variable to set; undefined for an error that is
 * not about the address. @param portVariable names the port's environment variable.
 */
export function listenProblem(
  error: unknown,
  { host, port }: { readonly host: string; readonly port: number },
  portVariable: string,
): string | undefined {
  const { code } = error as NodeJS.ErrnoException;
  const where = `${host}:${String(port)}`;
  if (code === 'EADDRINUSE') return `${where} is in use: set ${portVariable} to another port.`;
  return code === 'EACCES' || code === 'EADDRNOTAVAIL' || code === 'ENOTFOUND'
    ? `${where} cannot be listened on: check LEASEHOLD_HOST and ${portVariable}.`
    : undefined;
}
