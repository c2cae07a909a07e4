/** The types of answers, as the compiler has inferred them for each procedure. */
import path from 'node:path';
import ts from 'typescript';
import { invariant } from '@leasehold/keys-core';

/** A procedure, as far as its types and its comments tell. */
export interface TypedProcedure {
  readonly answer: ts.Type;
  /** What the comment above the procedure says. */
  readonly comment: string;
}

export interface TypedProcedures {
  readonly checker: ts.TypeChecker;
  /** By path, such as `keys.connect`. */
  readonly procedures: ReadonlyMap<string, TypedProcedure>;
}

/** Reads the router with the compiler. */
export function readTypes(root: string): TypedProcedures {
  const file = path.join(root, 'libs/api/src/app-router.ts');
  const config = ts.getParsedCommandLineOfConfigFile(
    path.join(root, 'libs/api/tsconfig.json'),
    {},
    { ...ts.sys, onUnRecoverableConfigFileDiagnostic: () => undefined },
  );
  const program = ts.createProgram([file], config?.options ?? {});
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(file);
  const module = source && checker.getSymbolAtLocation(source);
  const exported = module && checker.getExportsOfModule(module);
  const router = exported?.find(({ name }) => name === 'appRouter');
  invariant(router !== undefined, `${file} exports no appRouter`);
  const inside = (type: ts.Type, ...names: readonly string[]): ts.Type =>
    names.reduce((of, name) => {
      const property = checker.getPropertyOfType(of, name);
      invariant(property !== undefined, `a router or procedure of tRPC has no "${name}"`);
      return checker.getTypeOfSymbol(property);
    }, type);
  const procedures = new Map<string, TypedProcedure>();
  const groups = inside(checker.getTypeOfSymbol(router), '_def', 'record');
  for (const group of checker.getPropertiesOfType(groups)) {
    for (const procedure of checker.getPropertiesOfType(checker.getTypeOfSymbol(group))) {
      procedures.set(`${group.name}.${procedure.name}`, {
        answer: inside(checker.getTypeOfSymbol(procedure), '_def', '$types', 'output'),
        comment: commentOf(procedure, checker),
      });
    }
  }
  return { checker, procedures };
}

/** A comment as one text: its lines are broken where the code is full, not where the thought ends. */
export function commentOf(symbol: ts.Symbol, checker: ts.TypeChecker): string {
  const text = ts.displayPartsToString(symbol.getDocumentationComment(checker));
  return text
    .replaceAll(/\{@link ([^}|]+)\}/gu, '`$1`')
    .replaceAll(/\n(?!\n)/gu, ' ')
    .trim();
}
