/** What tests share: a real PostgreSQL, a database for each file, processes, faults. */
export * from './stack.ts';
export { catchUncaught } from './catch-uncaught.ts';
export { expectPrompt } from './expect-prompt.ts';
export { forTest, openTestStage } from './stage/test-stage.ts';
export { copyForTests, createTestDatabase } from './postgres/test-database.ts';
export { setMeaningOddly, setOddly } from './postgres/odd-settings.ts';
