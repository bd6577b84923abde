/** A command as a call of the API that another program can make; only the key is left to fill in. Pure. */
import type { Command } from '../api/types.ts';

export interface Snippet {
  label: string;
  text: string;
}

export function snippets({ siteId, routingKey, payload }: Command, origin: string): Snippet[] {
  if (routingKey === '') return [];
  const url = `${origin}/api/v1/vcp/sites/${siteId}/commands`;
  const body = JSON.stringify(payload);
  return [
    { label: 'curl', text: curl(url, siteId, routingKey, body) },
    { label: 'Node', text: node(url, siteId, routingKey, body) },
    { label: 'Python', text: python(url, siteId, routingKey, body) },
  ];
}

/** A text within single quotes of a shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function curl(url: string, siteId: string, routingKey: string, body: string): string {
  return `ENVELOPE=$(jq -n --argjson payload ${quoted(body)} \\
  --arg id "$(uuidgen)" --arg at "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" \\
  '{version: "1.1", messageId: $id, timestamp: $at, source: "my-program", siteId: "${siteId}", payload: $payload}')
curl -sS ${url} -H "x-api-key: $KEY" -H 'content-type: application/json' \\
  -d "$(jq -n --arg message "$ENVELOPE" '{routingKey: "${routingKey}", message: $message}')"`;
}

function node(url: string, siteId: string, routingKey: string, body: string): string {
  return `const message = JSON.stringify({
  version: '1.1', messageId: crypto.randomUUID(), timestamp: new Date().toISOString(),
  source: 'my-program', siteId: '${siteId}',
  payload: ${body},
});
const answer = await fetch('${url}', {
  method: 'POST',
  headers: { 'x-api-key': process.env.KEY, 'content-type': 'application/json' },
  body: JSON.stringify({ routingKey: '${routingKey}', message }),
});
console.log(await answer.json());`;
}

function python(url: string, siteId: string, routingKey: string, body: string): string {
  return `import datetime, json, os, urllib.request, uuid
message = json.dumps({
    "version": "1.1", "messageId": str(uuid.uuid4()),
    "timestamp": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    "source": "my-program", "siteId": "${siteId}",
    "payload": json.loads(${JSON.stringify(body)}),
})
request = urllib.request.Request(
    "${url}",
    json.dumps({"routingKey": "${routingKey}", "message": message}).encode(),
    {"x-api-key": os.environ["KEY"], "content-type": "application/json"},
)
print(json.load(urllib.request.urlopen(request)))`;
}
