// Resolves the names of CROFT_DOMAIN to this host, also where the system does not resolve names below localhost.
import dns from 'node:dns'

const { lookup } = dns
const domain = process.env.CROFT_DOMAIN
dns.lookup = (name, options, done) => {
  if (name !== domain && !name.endsWith('.' + domain)) return lookup(name, options, done)
  if (typeof options === 'function') [done, options] = [options, {}]
  process.nextTick(() => (options.all ? done(null, [{ address: '127.0.0.1', family: 4 }]) : done(null, '127.0.0.1', 4)))
}
