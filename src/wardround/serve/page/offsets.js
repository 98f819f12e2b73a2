// The endpoint counts characters (code points); a string here counts UTF-16 units, two for an emoji.

// From a place in characters to one in units.
export function unitsOf(text) {
  const wide = []; // the characters of two units, by their number
  for (let at = 0, number = 0; at < text.length; at++, number++) {
    if (text.codePointAt(at) > 0xffff) {
      wide.push(number);
      at++;
    }
  }
  return (place) => place + below(wide, place);
}

// From a place in units to one in characters.
export function charactersOf(text) {
  const wide = []; // where characters of two units begin
  for (let at = 0; at < text.length; at++) {
    if (text.codePointAt(at) > 0xffff) wide.push(at++);
  }
  return (place) => place - below(wide, place);
}

// How many of these sorted numbers are below one.
function below(numbers, limit) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
