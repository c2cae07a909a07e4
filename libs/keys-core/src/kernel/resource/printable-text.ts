/**
 * What a reader cannot see, or what changes what is seen around it: control and format characters, characters
 * that nothing draws (`Default_Ignorable_Code_Point`), spaces that are not the ordinary one, unassigned and
 * private ones; and a backslash that would read as the beginning of an escape. A joiner or a variation selector
 * inside an emoji is part of what is drawn.
 */
const UNSEEN =
  /(?<=\p{Extended_Pictographic}[\p{Emoji_Modifier}\uFE0F]?)\u200D(?=\p{Extended_Pictographic})|(?<=\p{Extended_Pictographic})\uFE0F|([\p{C}\p{Zl}\p{Zp}\p{DI}]|(?! )\p{Zs}|\\(?=u\{))/gu;

/**
 * A text in which everything can be seen: what could not is written as `\u{202e}`. Different texts stay
 * different. Names are shown in this form, so that none can pass for another.
 */
export function printableText(text: string): string {
  return text.replaceAll(UNSEEN, (char, unseen: string | undefined) =>
    unseen === undefined ? char : `\\u{${(unseen.codePointAt(0) ?? 0).toString(16)}}`,
  );
}
