// Numbers and dates as people in the United States write them, and Intl as far as that
// goes. Any other locale, and any other option, is an error that names it.
"use strict";
const { lack, lacking } = require("lacking");

const known = ["en-US", "en", "en-US-u-nu-latn"];

// checkLocale refuses what is not English of the United States. Without a name it is
// that of the environment, as in Node.
function checkLocale(locales) {
  const list = Array.isArray(locales) ? locales : locales === undefined ? [] : [locales];
  for (const name of list) {
    if (typeof name !== "string" && typeof name !== "object") throw new TypeError("Incorrect locale information provided");
    if (!/^[a-z]{2,8}(-[a-z0-9]{1,8})*$/i.test(String(name))) throw new RangeError(`Incorrect locale information provided`);
  }
  const env = host.environ;
  const name = list.length > 0 ? String(list[0]) : (env.LC_ALL || env.LC_MESSAGES || env.LANG || "en-US").replace(/[.@].*$/, "").replace("_", "-");
  if (!known.includes(name) && !(list.length === 0 && /^(C|POSIX)$/.test(name))) throw lack(`The locale ${name}`);
}

// pick reads the options, and refuses those that are not known.
function pick(what, given, allowed) {
  const options = {};
  for (const key of Object.keys(Object(given))) {
    const value = given[key];
    if (value === undefined) continue;
    const values = allowed[key];
    if (values === undefined) throw lack(`The option ${key} of ${what}`);
    if (Array.isArray(values) && !values.includes(value)) {
      if (values.refuses?.includes(value)) throw lack(`The value ${JSON.stringify(value)} of the option ${key} of ${what}`);
      throw new RangeError(`Value ${value} out of range for ${what} options property ${key}`);
    }
    options[key] = value;
  }
  return options;
}
const values = (list, refuses = []) => Object.assign(list, { refuses });

const numberOptions = {
  style: values(["decimal", "percent", "currency"], ["unit"]),
  currency: true,
  currencyDisplay: values(["symbol"], ["code", "name", "narrowSymbol"]),
  currencySign: values(["standard", "accounting"]),
  notation: values(["standard", "compact"], ["scientific", "engineering"]),
  compactDisplay: values(["short"], ["long"]),
  signDisplay: values(["auto", "always", "never", "exceptZero", "negative"]),
  useGrouping: values([true, false, "always", "auto", "true"], ["min2", "false"]),
  minimumIntegerDigits: true,
  minimumFractionDigits: true,
  maximumFractionDigits: true,
  minimumSignificantDigits: true,
  maximumSignificantDigits: true,
  localeMatcher: true,
};
const symbols = { USD: "$", EUR: "€", GBP: "£", JPY: "¥", CNY: "CN¥", INR: "₹", KRW: "₩", CAD: "CA$", AUD: "A$", MXN: "MX$", BRL: "R$", CHF: "CHF\u00a0", SEK: "SEK\u00a0" };

function digits(options, key, low, high, otherwise) {
  if (options[key] === undefined) return otherwise;
  const n = Number(options[key]);
  if (!(n >= low && n <= high)) throw new RangeError(`${key} value is out of range.`);
  return Math.floor(n);
}

// decimalOf is the exact value of a number: its digits, and how many of them are after
// the point.
function decimalOf(value) {
  if (typeof value === "bigint") return { all: value, scale: 0 };
  const [, whole, fraction = "", exponent = "0"] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value));
  const scale = fraction.length - Number(exponent);
  const all = BigInt(whole + fraction);
  return scale >= 0 ? { all, scale } : { all: all * 10n ** BigInt(-scale), scale: 0 };
}

// rounded is a value with at most max digits after the point, half away from zero.
function rounded({ all, scale }, max) {
  if (scale <= max) return { all, scale };
  const unit = 10n ** BigInt(scale - max);
  return { all: (all + unit / 2n) / unit, scale: max };
}

function plain({ all, scale }, min, whole, group) {
  const text = String(all).padStart(scale + 1, "0");
  let head = text.slice(0, text.length - scale).padStart(whole, "0");
  if (group) head = head.replace(/\B(?=(\d{3})+$)/g, ",");
  const tail = scale > 0 ? text.slice(-scale).replace(/0+$/, "") : "";
  const fraction = tail.padEnd(min, "0");
  return fraction === "" ? head : `${head}.${fraction}`;
}

function numberFormat(locales, given) {
  checkLocale(locales);
  const options = pick("Intl.NumberFormat", given, numberOptions);
  const { style = "decimal", notation = "standard", signDisplay = "auto" } = options;
  if (style === "currency" && options.currency === undefined) throw new TypeError("Currency code is required with currency style.");
  const currency = options.currency === undefined ? undefined : String(options.currency).toUpperCase();
  if (currency !== undefined && !/^[A-Z]{3}$/.test(currency)) throw new RangeError(`Invalid currency code : ${options.currency}`);
  if (style === "currency" && symbols[currency] === undefined) throw lack(`The currency ${currency}`);
  const usual = style === "currency" ? (/^(JPY|KRW)$/.test(currency) ? 0 : 2) : 0;
  const most = style === "currency" ? usual : style === "percent" ? 0 : 3;
  const compact = notation === "compact";
  const whole = digits(options, "minimumIntegerDigits", 1, 21, 1);
  const significant = options.minimumSignificantDigits !== undefined || options.maximumSignificantDigits !== undefined;
  const minSignificant = digits(options, "minimumSignificantDigits", 1, 21, 1);
  const maxSignificant = digits(options, "maximumSignificantDigits", minSignificant, 21, 21);
  let min = digits(options, "minimumFractionDigits", 0, 100, undefined);
  let max = digits(options, "maximumFractionDigits", 0, 100, undefined);
  const given_ = min !== undefined || max !== undefined;
  if (min === undefined) min = max === undefined ? (compact ? 0 : usual) : Math.min(compact ? 0 : usual, max);
  if (max === undefined) max = compact && !given_ ? 0 : Math.max(most, min);
  if (min > max) throw new RangeError("maximumFractionDigits value is out of range.");
  const group = options.useGrouping !== false;

  // magnitude writes a value that is not negative, as its text and whether it is zero.
  function magnitude(value) {
    if (value === Infinity) return ["∞", false];
    let exact = decimalOf(value);
    if (style === "percent") exact = { all: exact.all * 100n, scale: exact.scale };
    let suffix = "";
    if (compact) {
      const length = String(exact.all).length - exact.scale;
      let power = Math.min(4, Math.max(0, Math.floor((length - 1) / 3)));
      const shifted = () => ({ all: exact.all, scale: exact.scale + 3 * power });
      const near = compactRound(shifted());
      if (power < 4 && near.all >= 1000n * 10n ** BigInt(near.scale)) power++;
      exact = shifted();
      suffix = ["", "K", "M", "B", "T"][power];
    }
    const done = compact ? compactRound(exact) : significant ? bySignificance(exact, maxSignificant) : rounded(exact, max);
    const least = significant ? leastFraction(done) : min;
    return [plain(done, least, whole, group && (!compact || String(done.all).length - done.scale > 4)) + suffix, done.all === 0n];
  }
  // compactRound keeps two significant digits of what is short, as compact notation does.
  function compactRound(exact) {
    if (significant) return bySignificance(exact, maxSignificant);
    if (given_) return rounded(exact, max);
    const length = String(exact.all).length - exact.scale;
    return length >= 2 ? rounded(exact, 0) : bySignificance(exact, 2);
  }
  function bySignificance(exact, count) {
    const length = exact.all === 0n ? 1 : String(exact.all).length;
    if (length <= count) return exact;
    const drop = length - count;
    const unit = 10n ** BigInt(drop);
    const all = (exact.all + unit / 2n) / unit;
    return exact.scale >= drop ? { all, scale: exact.scale - drop } : { all: all * 10n ** BigInt(drop - exact.scale), scale: 0 };
  }
  const leastFraction = (done) => Math.max(0, minSignificant - (String(done.all).length - done.scale));

  return (value) => {
    const n = typeof value === "bigint" ? value : Number(value);
    const negative = n < 0 || Object.is(n, -0);
    const [text, zero] = Number.isNaN(n) ? ["NaN", false] : magnitude(negative ? -n : n);
    const body = style === "currency" ? symbols[currency] + text : style === "percent" ? text + "%" : text;
    const minus = negative && signDisplay !== "never" && !(zero && (signDisplay === "exceptZero" || signDisplay === "negative"));
    if (minus) return options.currencySign === "accounting" && style === "currency" ? `(${body})` : `-${body}`;
    const plus = !negative && (signDisplay === "always" || (signDisplay === "exceptZero" && !zero && !Number.isNaN(n)));
    return plus ? `+${body}` : body;
  };
}

const months = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const days = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const zones = { UTC: "UTC", EST: "EST", EDT: "EDT", CST: "CST", CDT: "CDT", MST: "MST", MDT: "MDT", PST: "PST", PDT: "PDT" };
const two = values(["numeric", "2-digit"]);
const names = values(["long", "short", "narrow"]);
const styles = values(["full", "long", "medium", "short"]);
const dateOptions = {
  weekday: names,
  year: two,
  month: values(["numeric", "2-digit", "long", "short", "narrow"]),
  day: two,
  hour: two,
  minute: two,
  second: two,
  hour12: values([true, false]),
  hourCycle: values(["h12", "h23"], ["h11", "h24"]),
  timeZone: true,
  timeZoneName: values(["short"], ["long", "shortOffset", "longOffset", "shortGeneric", "longGeneric"]),
  dateStyle: styles,
  timeStyle: styles,
  localeMatcher: true,
};
const datePresets = {
  full: { weekday: "long", month: "long", day: "numeric", year: "numeric" },
  long: { month: "long", day: "numeric", year: "numeric" },
  medium: { month: "short", day: "numeric", year: "numeric" },
  short: { month: "numeric", day: "numeric", year: "2-digit" },
};
const timePresets = {
  full: null,
  long: { hour: "numeric", minute: "2-digit", second: "2-digit", timeZoneName: "short" },
  medium: { hour: "numeric", minute: "2-digit", second: "2-digit" },
  short: { hour: "numeric", minute: "2-digit" },
};
const dateKeys = ["weekday", "year", "month", "day"];
const timeKeys = ["hour", "minute", "second"];

// dateFormat formats dates. need says which fields are there without options: those of
// a date, of a time, or of both.
function dateFormat(locales, given, need = "date") {
  checkLocale(locales);
  const options = pick("Intl.DateTimeFormat", given, dateOptions);
  const has = (keys) => keys.some((key) => options[key] !== undefined);
  const styled = options.dateStyle !== undefined || options.timeStyle !== undefined;
  if (styled) {
    const extra = [...dateKeys, ...timeKeys, "timeZoneName"].find((key) => options[key] !== undefined);
    if (extra) throw new TypeError("Invalid option : option");
    if ((need === "time" || need === "onlyTime") && options.dateStyle !== undefined) throw new TypeError("Invalid option : dateStyle");
    if (need === "onlyDate" && options.timeStyle !== undefined) throw new TypeError("Invalid option : timeStyle");
    if (options.timeStyle === "full") throw lack('The value "full" of the option timeStyle of Intl.DateTimeFormat');
    Object.assign(options, datePresets[options.dateStyle], timePresets[options.timeStyle]);
  } else {
    const wants = { date: [true, true, false, dateKeys.concat(timeKeys)], onlyDate: [true, false, true, dateKeys], onlyTime: [false, true, true, timeKeys], both: [true, true, false, dateKeys.concat(timeKeys)] }[need];
    if (!has(wants[3])) {
      if (need !== "onlyTime") Object.assign(options, { year: "numeric", month: "numeric", day: "numeric" });
      if (need === "onlyTime" || need === "both") Object.assign(options, { hour: "numeric", minute: "2-digit", second: "2-digit" });
    }
  }
  let zone = "";
  if (options.timeZone !== undefined) {
    zone = /^(utc|gmt|etc\/utc|etc\/gmt)$/i.test(options.timeZone) ? "UTC" : String(options.timeZone);
    if (host.localTime(0, zone) === undefined || /^local$/i.test(zone) || zone === "") throw new RangeError(`Invalid time zone specified: ${options.timeZone}`);
  }
  const twelve = options.hour12 ?? (options.hourCycle === undefined || options.hourCycle === "h12");

  const format = (date) => {
    const ms = date === undefined ? Date.now() : Number(date);
    if (!(Math.abs(ms) <= 8.64e15)) throw new RangeError("Invalid time value");
    const t = host.localTime(ms, zone);
    if (t.year < 1) throw lack("A year before 1 in Intl.DateTimeFormat");
    const pad = (value, form) => (form === "2-digit" ? String(value % 100).padStart(2, "0") : String(value));
    const named = (list, i, form) => (form === "long" ? list[i] : list[i].slice(0, form === "short" ? 3 : 1));
    const year = options.year && pad(t.year, options.year);
    const weekday = options.weekday && named(days, t.weekday, options.weekday);
    const day = options.day && pad(t.day, options.day);
    const isName = names.includes(options.month);
    const month = options.month && (isName ? named(months, t.month - 1, options.month) : pad(t.month, options.month));
    let text;
    if (isName) {
      const head = [month, day].filter(Boolean).join(" ");
      text = [weekday, day && year ? `${head}, ${year}` : [head, year].filter(Boolean).join(" ")].filter(Boolean).join(", ");
    } else {
      const numeric = [month, day, year].filter(Boolean).join("/");
      text = day && weekday && !month && !year ? `${day} ${weekday}` : [weekday, numeric].filter(Boolean).join(", ");
    }
    const clock = clockText(t);
    if (clock === "" || text === "") return text || clock;
    const spelled = options.month === "long" && !["short", "medium"].includes(options.dateStyle);
    const onlyWeekday = weekday && !month && !day && !year;
    return text + (spelled ? " at " : onlyWeekday ? " " : ", ") + clock;
  };

  function clockText(t) {
    const padded = (value) => String(value).padStart(2, "0");
    const parts = [];
    const alone = !options.minute && !options.hour;
    if (options.hour) {
      const hour = twelve ? t.hour % 12 || 12 : t.hour;
      parts.push(options.hour === "2-digit" || !twelve ? padded(options.hour12 === false && hour === 0 ? 24 : hour) : String(hour));
    }
    if (options.minute) parts.push(options.hour || options.second ? padded(t.minute) : String(t.minute));
    if (options.second) parts.push(alone ? String(t.second) : padded(t.second));
    let clock = parts.join(":");
    if (options.hour && twelve) clock += t.hour < 12 ? " AM" : " PM";
    if (options.timeZoneName) {
      const short = zones[t.abbreviation] ?? gmt(t.offset);
      clock = clock === "" ? short : `${clock} ${short}`;
    }
    return clock;
  }
  const gmt = (offset) => {
    const minutes = Math.abs(offset) / 60;
    const rest = minutes % 60;
    return offset === 0 ? "GMT" : `GMT${offset < 0 ? "-" : "+"}${Math.floor(minutes / 60)}${rest ? ":" + String(rest).padStart(2, "0") : ""}`;
  };
  return { format, timeZone: zone };
}

const zoneName = (zone) => (zone !== "" ? zone : host.environ.TZ || host.timeZone || "UTC");

function NumberFormat(locales, options) {
  const format = numberFormat(locales, options);
  return Object.setPrototypeOf({ format, resolvedOptions: () => ({ locale: "en-US", numberingSystem: "latn", ...options }) }, NumberFormat.prototype);
}
function DateTimeFormat(locales, options) {
  const made = dateFormat(locales, options);
  const resolvedOptions = () => ({ locale: "en-US", calendar: "gregory", numberingSystem: "latn", timeZone: zoneName(made.timeZone), ...options });
  return Object.setPrototypeOf({ format: made.format, resolvedOptions }, DateTimeFormat.prototype);
}
for (const [Kind, more] of [[NumberFormat, ["formatToParts", "formatRange", "formatRangeToParts"]], [DateTimeFormat, ["formatToParts", "formatRange", "formatRangeToParts"]]]) {
  for (const name of more) Kind.prototype[name] = lacking(`Intl.${Kind.name}.prototype.${name}`);
}

const Intl = { NumberFormat, DateTimeFormat };
for (const name of ["Collator", "DisplayNames", "DurationFormat", "ListFormat", "Locale", "PluralRules", "RelativeTimeFormat", "Segmenter", "getCanonicalLocales", "supportedValuesOf"]) {
  Intl[name] = lacking(`Intl.${name}`);
}

// install puts the methods of the prototypes in place.
function install(define) {
  define(globalThis, "Intl", Intl);
  define(Number.prototype, "toLocaleString", function toLocaleString(locales, options) {
    return numberFormat(locales, options)(Number(this));
  });
  define(BigInt.prototype, "toLocaleString", function toLocaleString(locales, options) {
    return numberFormat(locales, options)(BigInt(this));
  });
  for (const [name, need] of [["toLocaleString", "both"], ["toLocaleDateString", "onlyDate"], ["toLocaleTimeString", "onlyTime"]]) {
    const method = {
      [name](locales, options) {
        const { format } = dateFormat(locales, options, need);
        return Number.isNaN(this.getTime()) ? "Invalid Date" : format(this);
      },
    }[name];
    define(Date.prototype, name, method);
  }
  for (const name of ["toLocaleLowerCase", "toLocaleUpperCase"]) {
    const plain = name === "toLocaleLowerCase" ? String.prototype.toLowerCase : String.prototype.toUpperCase;
    const method = {
      [name](locales) {
        if (locales !== undefined) checkLocale(locales);
        return Reflect.apply(plain, this, []);
      },
    }[name];
    define(String.prototype, name, method);
  }
  // The long name of the zone is known of UTC.
  for (const name of ["toString", "toTimeString"]) {
    const native = Date.prototype[name];
    const method = {
      [name]() {
        return Reflect.apply(native, this, []).replace(/ \(UTC\)$/, " (Coordinated Universal Time)");
      },
    }[name];
    define(Date.prototype, name, method);
  }
  const compare = String.prototype.localeCompare;
  define(String.prototype, "localeCompare", function localeCompare(that, locales, options) {
    if (locales !== undefined) checkLocale(locales);
    if (options !== undefined && Object.keys(options).length > 0) throw lack(`The option ${Object.keys(options)[0]} of localeCompare`);
    return Reflect.apply(compare, this, [that]);
  });
}
module.exports = { install };
