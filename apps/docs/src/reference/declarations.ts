/** What our sources declare, by name. They are read as text: nothing is compiled. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import ts from 'typescript';
import { ROOT } from '../root.ts';

export interface Declarations {
  /** Functions and constants outside of functions. */
  readonly values: ReadonlyMap<string, ts.FunctionDeclaration | ts.VariableDeclaration>;
  readonly interfaces: ReadonlyMap<string, ts.InterfaceDeclaration>;
  readonly aliases: ReadonlyMap<string, ts.TypeAliasDeclaration>;
}

/** Of all files below some folders, tests left out. Of a name that is declared twice the first stays. */
export function declarationsIn(folders: readonly string[]): Declarations {
  const values = new Map<string, ts.FunctionDeclaration | ts.VariableDeclaration>();
  const interfaces = new Map<string, ts.InterfaceDeclaration>();
  const aliases = new Map<string, ts.TypeAliasDeclaration>();
  const add = (statement: ts.Statement): void => {
    if (ts.isFunctionDeclaration(statement)) note(values, statement.name?.text ?? '', statement);
    else if (ts.isInterfaceDeclaration(statement)) {
      note(interfaces, statement.name.text, statement);
    } else if (ts.isTypeAliasDeclaration(statement)) note(aliases, statement.name.text, statement);
    else if (ts.isVariableStatement(statement)) {
      for (const value of statement.declarationList.declarations) {
        note(values, value.name.getText(), value);
      }
    }
  };
  for (const file of folders.flatMap(filesBelow)) {
    const text = readFileSync(path.join(ROOT, file), 'utf8');
    ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true).statements.forEach(add);
  }
  return { values, interfaces, aliases };
}

/** The sources below a folder of the repository, tests left out. */
export function filesBelow(folder: string): string[] {
  return readdirSync(path.join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts') && !/\.test\.ts$|(?:^|\/)testing\//u.test(file))
    .map((file) => path.posix.join(folder, file));
}

/** The comment above a declaration. */
export function docOf(node: ts.Node): string {
  const owner = ts.isVariableDeclaration(node) ? node.parent.parent : node;
  return ts
    .getJSDocCommentsAndTags(owner)
    .map((comment) => comment.getText())
    .join('\n');
}

function note<Value>(map: Map<string, Value>, name: string, value: Value): void {
  if (!map.has(name)) map.set(name, value);
}
