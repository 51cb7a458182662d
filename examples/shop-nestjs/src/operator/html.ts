/** A piece of HTML. Only `html` makes one, so what is in it has been escaped. */
export class Html {
  constructor(private readonly text: string) {}

  toString(): string {
    return this.text;
  }
}

type Value = Html | string | number | null | undefined | false | Value[];

/** A template of HTML. What is put into it is escaped, unless it is HTML; null, undefined and false are nothing. */
export function html(literals: TemplateStringsArray, ...values: Value[]): Html {
  return new Html(String.raw({ raw: literals }, ...values.map(render)));
}

function render(value: Value): string {
  if (value === null || value === undefined || value === false) return '';
  if (Array.isArray(value)) return value.map(render).join('');
  return value instanceof Html ? value.toString() : String(value).replace(/[&<>"']/g, (c) => entities[c] ?? c);
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
