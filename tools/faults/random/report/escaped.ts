export function escaped(text: string): string {
  return text.replace(/[&<>"]/gu, (sign) => `&#${String(sign.charCodeAt(0))};`);
}
