import classes from './row-checkbox.module.css';

/** The browser's own checkbox in the console's colour; `isPartly`: neither on nor off. */
export function RowCheckbox({
  label,
  isChecked,
  isPartly = false,
  onChange,
}: {
  /** What a screen reader calls it. */
  readonly label: string;
  readonly isChecked: boolean;
  readonly isPartly?: boolean;
  readonly onChange: (isChecked: boolean) => void;
}) {
  return (
    <input
      type="checkbox"
      className={classes['checkbox']}
      aria-label={label}
      checked={isChecked}
      // HTML has no attribute for it.
      ref={(input) => {
        if (input !== null) input.indeterminate = isPartly;
      }}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
  );
}
