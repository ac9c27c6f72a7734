/** Icons: strokes on a grid of 16. */
const SHAPES = {
  repository: "M3 2.5h9.5v11H4.5A1.5 1.5 0 0 1 3 12V2.5ZM3 11.5h9.5M6 5h4",
  folder: "M1.5 4V12.5h13V5H8L6.5 3H2.5a1 1 0 0 0-1 1Z",
  file: "M4 1.5h5L12.5 5v9.5H4zM9 1.5V5h3.5",
  branch:
    "M4.5 5.5v5M4.5 10c0-3 6.5-1.5 6.5-4.5M4.5 2.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3ZM4.5 10.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3ZM11 2.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3Z",
  commit: "M1.5 8h4M10.5 8h4M8 5.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5Z",
  tag: "M2 2h6l6 6-6 6-6-6zM5 5h.01",
  compare: "M5 3v10M5 3 2.5 5.5M5 3l2.5 2.5M11 13V3M11 13l-2.5-2.5M11 13l2.5-2.5",
  merge:
    "M4.5 5.5v5M4.5 5.5C4.5 8 8 8 9.5 8M4.5 2.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3ZM4.5 10.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3ZM11 6.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3Z",
  settings: "M2 4.5h7M12 4.5h2M2 11.5h2M7 11.5h7M10.5 3v3M5.5 10v3",
  storage: "M2.5 2.5h11v11h-11zM8.500 2.500v11M8.500 8h5",
  key: "M5.500 6.500a2.500 2.500 0 1 1 0 5 2.500 2.500 0 0 1 0-5ZM7.500 7.500 13 2.500M10.500 4.500 13 7",
  comment: "M2 3h12v8H7l-3 3v-3H2z",
  job: "M8 2v3M8 11v3M2 8h3M11 8h3M4 4l1.8 1.8M10.2 10.2 12 12",
  code: "M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5",
  play: "M4.5 3v10l8-5z",
  upload: "M8 10.5v-8M8 2.5 5 5.5M8 2.5l3 3M2.5 10v3.5h11V10",
  download: "M8 2.5v8M8 10.5l-3-3M8 10.5l3-3M2.5 10v3.5h11V10",
  trash: "M2.5 4h11M6 4V2.5h4V4M4 4l.7 9.5h6.6L12 4",
  copy: "M5.5 5.5h8v8h-8zM3 10.5h-.5v-8h8V3",
  search: "M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9ZM10.5 10.5l3.5 3.5",
  plus: "M8 3v10M3 8h10",
  check: "M3 8.5 6.5 12 13 4.5",
  close: "M4 4l8 8M12 4l-8 8",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  up: "M8 13V3M8 3 4 7M8 3l4 4",
  sun: "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5Z",
  half: "M8 2.5a5.5 5.5 0 1 1 0 11zM8 2.5a5.5 5.5 0 0 0 0 11",
  user: "M8 2.5a2.5 2.5 0 1 1 0 5 2.5 2.5 0 0 1 0-5ZM3 13.5c0-5 10-5 10 0",
  warning: "M8 2 1.5 13.5h13zM8 6.5v3M8 11.5h.01",
  undo: "M5.5 3 2.5 6l3 3M2.5 6H10a3.5 3.5 0 0 1 0 7H6",
  pull: "M4.5 5.5v5M4.5 2.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3ZM4.5 10.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3ZM11.5 10.5a1.5 1.5 0 1 1 0 3 1.5 1.5 0 0 1 0-3ZM11.5 10.5V6a2 2 0 0 0-2-2H8",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  history: "M2.5 8A5.5 5.5 0 1 0 4 4.2M2.5 2.5v2.7h2.7M8 5v3.2l2 1.3",
  pin: "M10 2l4 4-2.5.5L9 9l-.5 3L4 7.5 7 7l2.500-2.500zM4.500 11.500 2 14",
} as const;

export type IconName = keyof typeof SHAPES;

/** A picture beside a text, or alone in a button that has a label. */
export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={SHAPES[name]} />
    </svg>
  );
}
