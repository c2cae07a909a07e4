/** Whether manifests are what the API of Kubernetes describes: its schemas, as types, know every field. */
import path from 'node:path';
import ts from 'typescript';

const FILE = path.join(import.meta.dirname, 'checked-manifests.ts');
const OPTIONS: ts.CompilerOptions = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  types: [],
  module: ts.ModuleKind.NodeNext,
  target: ts.ScriptTarget.ES2023,
};

export interface Checked {
  /** What the problems name. */
  readonly name: string;
  readonly apiVersion: string;
  readonly kind: string;
  readonly whole: unknown;
}

/** All fields that are unknown, missing or of another type, each with the name of its manifest. */
export function apiProblems(manifests: readonly Checked[]): string[] {
  const lines = manifests.map(
    ({ apiVersion, kind, whole }, index) =>
      `export const m${String(index)}: import('kubernetes-models/${apiVersion}').I${kind} = ${JSON.stringify(whole)};`,
  );
  const text = lines.join('\n');
  const host = ts.createCompilerHost(OPTIONS);
  const fileExists = host.fileExists.bind(host);
  const getSourceFile = host.getSourceFile.bind(host);
  host.fileExists = (name) => name === FILE || fileExists(name);
  host.getSourceFile = (name, ...rest) =>
    name === FILE
      ? ts.createSourceFile(name, text, ts.ScriptTarget.ES2023)
      : getSourceFile(name, ...rest);
  const program = ts.createProgram([FILE], OPTIONS, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start = 0, messageText }) => {
    const line = file?.fileName === FILE ? file.getLineAndCharacterOfPosition(start).line : -1;
    const name = manifests[line]?.name ?? file?.fileName ?? '';
    return `${name}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}
