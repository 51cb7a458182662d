-- Canonical JSON and the request fingerprint.

comment on function public.canonical_json(jsonb) is
$$The canonical form of a JSON value after RFC 8785 (JCS): no white space, keys by UTF-16 code units, numbers as the nearest double in ECMAScript's layout, no Unicode normalisation. It is what JavaScript makes of the parsed value, and never jsonb's own text.
p_value: the value. A number too small for a double is 0, and -0 is 0, as in JavaScript.
Answers the text; NULL for NULL.
Errors: 22003 for a number that no double holds.
Since 0.1.0.$$;

comment on function public.request_fingerprint(jsonb) is
$$The fingerprint of a request: the SHA-256 of its canonical form, equal to what JavaScript computes on the parsed body.
p_request: the request. Two integers that differ only beyond 2^53 have one fingerprint, as they are one number in JavaScript: send ids and money as strings.
Answers 64 lower-case hexadecimal digits; NULL for NULL.
Errors: 22003 for a number that no double holds.
Since 0.1.0.$$;
