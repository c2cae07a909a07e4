/** The names of all tests, for documents that name the test of a promise. */
import path from 'node:path';
import ts from 'typescript';
import { codeFiles, ROOT } from './source-files.ts';

/** Each test file, by its path, with the titles of its tests as they stand in it. */
export type TestTitles = ReadonlyMap<string, ReadonlySet<string>>;

export function testTitles(): TestTitles {
  const files = codeFiles(['.test.ts', '.e2e.ts']);
  return new Map(files.map((file) => [file, new Set(titlesIn(file))]));
}

function titlesIn(file: string): string[] {
  const text = ts.sys.readFile(path.join(ROOT, file)) ?? '';
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest);
  const titles: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && isTest(node.expression)) {
      const title = node.arguments[0];
      if (title !== undefined && ts.isStringLiteralLike(title)) titles.push(title.text);
      // With its expressions as they stand there.
      else if (title !== undefined && ts.isTemplateExpression(title)) {
        titles.push(title.getText(source).slice(1, -1));
      }
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return titles;
}

/** `test` itself, or what `test.each(…)` and the like give. Not `describe`: it holds nothing by itself. */
function isTest(callee: ts.Expression): boolean {
  if (ts.isIdentifier(callee)) return callee.text === 'test';
  if (ts.isPropertyAccessExpression(callee) || ts.isCallExpression(callee)) {
    return isTest(callee.expression);
  }
  return false;
}
