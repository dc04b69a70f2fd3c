/* Syntax colours for lines of a diff: comments, strings, numbers and keywords, line by line. Text stays text. */
const WORDS = {
  py: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield match case self",
  js: "async await break case catch class const continue default delete do else export extends false finally for from function if import in instanceof interface let new null of return static super switch this throw true try type typeof undefined var void while yield",
  c: "auto bool break case catch char class const continue default defer double else enum extern false final float fn for func go goto if impl import int interface let long match mod mut namespace new nil null package private protected pub public return self short static string struct switch template this throw true try type typedef union unsigned use using var virtual void while",
  sh: "case do done elif else esac export fi for function if in local return set then until while",
  data: "true false null yes no on off",
};
const LANGUAGES = {
  py: "py",
  pyi: "py",
  js: "js",
  jsx: "js",
  ts: "js",
  tsx: "js",
  mjs: "js",
  c: "c",
  h: "c",
  cc: "c",
  cpp: "c",
  hpp: "c",
  cs: "c",
  go: "c",
  rs: "c",
  java: "c",
  kt: "c",
  swift: "c",
  sh: "sh",
  bash: "sh",
  rb: "py",
  yaml: "data",
  yml: "data",
  toml: "data",
  json: "data",
  cfg: "data",
  ini: "data",
};
const languageOf = (name) => LANGUAGES[(/\.([A-Za-z]+)$/.exec(String(name).trim()) || [0, ""])[1].toLowerCase()] || "";
const RULES = Object.fromEntries(
  Object.entries(WORDS).map(([language, words]) => {
    const comment = language === "c" || language === "js" ? "\\/\\/.*$|\\/\\*.*?(?:\\*\\/|$)" : "#.*$";
    const string = `"(?:\\\\.|[^"\\\\])*"?|'(?:\\\\.|[^'\\\\])*'?` + (language === "js" ? "|`(?:\\\\.|[^`\\\\])*`?" : "");
    return [language, new RegExp(`(${comment})|(${string})|\\b(\\d[\\w.]*)\\b|\\b(${words.split(" ").join("|")})\\b`, "g")];
  }),
);
const TOKENS = ["comment", "string", "number", "word"];
const MAX_COLOURED = 600;

/* Return the parts of a line of a diff; its first character is the sign. */
function coloured(line, language) {
  const rule = RULES[language];
  if (!rule || line.length > MAX_COLOURED) return safe(line) || " ";
  const parts = [];
  let from = 0;
  rule.lastIndex = 0;
  for (let match = rule.exec(line); match; match = rule.exec(line)) {
    if (!match[0]) {
      rule.lastIndex++;
      continue;
    }
    if (match.index > from) parts.push(safe(line.slice(from, match.index)));
    const kind = TOKENS[[1, 2, 3, 4].find((n) => match[n] !== undefined) - 1];
    parts.push(h("span", { class: "tk-" + kind }, safe(match[0])));
    from = match.index + match[0].length;
  }
  if (from < line.length) parts.push(safe(line.slice(from)));
  return parts.length ? parts : " ";
}
