/**
 * Returns an address without its password, query and fragment, which may be secret. Works for
 * malformed addresses as well.
 */
export function redactAddress(address: string): string {
  return address.replace(/([?#]).*$/s, "$1…").replace(/^([a-z]+:\/\/)?.*@/is, "$1…@");
}
