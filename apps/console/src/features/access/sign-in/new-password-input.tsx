import { PasswordInput } from '@mantine/core';
import { PASSWORD_LENGTH, passwordProblem } from './sign-in-texts.ts';

/** The input for a new password: it shows the rule, and once something is typed, what is missing. */
export function NewPasswordInput({
  label,
  value,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  return (
    <PasswordInput
      size="sm"
      label={label}
      description={`${String(PASSWORD_LENGTH.min)} to ${String(PASSWORD_LENGTH.max)} characters. A few words are easier to remember than symbols.`}
      autoComplete="new-password"
      required
      withAsterisk={false}
      value={value}
      error={value === '' ? undefined : passwordProblem(value)}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
