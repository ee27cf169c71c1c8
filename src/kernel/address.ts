/** An address without what may be secret in it: its password, its query, its fragment. Also of what is nearly an address. */
export function withoutSecrets(address: string): string {
  return address.replace(/([?#]).*$/s, "$1…").replace(/^([a-z]+:\/\/)?.*@/is, "$1…@");
}
