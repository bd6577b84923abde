# A partner on Bunny, which connects, consumes and reconnects by itself.
require 'bunny'
require 'json'
require 'openssl'
require 'securerandom'
require 'time'

$stdout.sync = true
SLUG = ENV.fetch('SLUG')
ROUTING_KEY = "#{SLUG}.command.device".freeze
TLS = { tls_ca_certificates: [ENV.fetch('CA_FILE')], verify_peer: true, network_recovery_interval: 0.2,
        log_level: :fatal }.freeze

# A command to a battery in its signed envelope. Returns its correlation id and the text to publish.
def signed_command
  envelope = { version: '1.1', messageId: SecureRandom.uuid, correlationId: SecureRandom.uuid,
               timestamp: Time.now.utc.iso8601(3), source: 'ruby', siteId: ENV.fetch('SITE_ID') }
  command = { deviceId: 'BESS-1', assetType: 'BESS', command: 'BESS_CHARGE', params: { powerKw: 5 } }
  payload = { commands: [command] }
  signed = [*envelope.values, ROUTING_KEY, JSON.generate(payload)].join('|')
  signature = OpenSSL::HMAC.hexdigest('SHA256', ENV.fetch('SIGNING_KEY'), signed)
  [envelope[:correlationId], JSON.generate(envelope.merge(payload: payload, signature: signature))]
end

begin
  Bunny.new(ENV.fetch('WRONG_URL'), TLS).start
rescue Bunny::AuthenticationFailureError => e
  puts "refused #{e.class} #{e.message}"
end

connected = Queue.new
connection = Bunny.new(ENV.fetch('AMQP_URL'), TLS.merge(recovery_completed: -> { connected << true }))
connection.start
connected << true
channel = connection.create_channel
channel.confirm_select
statuses = Queue.new
channel.queue("vcp.#{SLUG}.event.status", passive: true).subscribe(manual_ack: true) do |delivery, _properties, body|
  channel.ack(delivery.delivery_tag)
  event = JSON.parse(body)
  statuses << [event['correlationId'], event['payload']['status']]
end

[1, 2, 3].each do |life|
  connected.pop
  puts 'connected'
  id, body = signed_command
  channel.basic_publish(body, 'vcp', ROUTING_KEY, content_type: 'application/json')
  raise 'not confirmed' unless channel.wait_for_confirms

  puts "confirmed #{id}"
  answered, status = statuses.pop until answered == id
  puts "acked #{id} #{status}"
  next unless life == 1

  channel.basic_publish('no envelope', 'vcp', ROUTING_KEY)
  channel.wait_for_confirms
  _delivery, _properties, content = channel.basic_get("vcp.#{SLUG}.dead-letter", manual_ack: false)
  puts "got #{content}"
  other = connection.create_channel
  begin
    other.basic_publish(body, 'vcp', 'other.command.device')
    other.basic_qos(1)
  rescue Bunny::AccessRefused, Bunny::ChannelAlreadyClosed => e
    puts "denied #{e.message}"
  end
end
connection.close
puts 'bye'
