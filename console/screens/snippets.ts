/** A command as a call of the API that another program can make; only the key is left to fill in. Pure. */
import { javaScriptText, pythonText, shellText } from '../../protocol/quoted.ts';
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

/** The routing key as JSON, because a shell cannot pass on every text that an old command may have. */
function curl(url: string, siteId: string, routingKey: string, body: string): string {
  const [payload, key] = [body, JSON.stringify(routingKey)].map(shellText);
  return `ENVELOPE=$(jq -n --argjson payload ${payload} --arg site ${shellText(siteId)} \\
  --arg id "$(uuidgen)" --arg at "$(date -u +%Y-%m-%dT%H:%M:%S.000Z)" \\
  '{version: "1.1", messageId: $id, timestamp: $at, source: "my-program", siteId: $site, payload: $payload}')
BODY=$(jq -n --arg message "$ENVELOPE" --argjson routingKey ${key} '{routingKey: $routingKey, message: $message}')
curl -sS ${shellText(url)} -H "x-api-key: $KEY" -H 'content-type: application/json' -d "$BODY"`;
}

function node(url: string, siteId: string, routingKey: string, body: string): string {
  return `const message = JSON.stringify({
  version: '1.1', messageId: crypto.randomUUID(), timestamp: new Date().toISOString(),
  source: 'my-program', siteId: ${javaScriptText(siteId)},
  payload: JSON.parse(${javaScriptText(body)}),
});
const answer = await fetch(${javaScriptText(url)}, {
  method: 'POST',
  headers: { 'x-api-key': process.env.KEY, 'content-type': 'application/json' },
  body: JSON.stringify({ routingKey: ${javaScriptText(routingKey)}, message }),
});
console.log(await answer.json());`;
}

function python(url: string, siteId: string, routingKey: string, body: string): string {
  return `import datetime, json, os, urllib.request, uuid
message = json.dumps({
    "version": "1.1", "messageId": str(uuid.uuid4()),
    "timestamp": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
    "source": "my-program", "siteId": ${pythonText(siteId)},
    "payload": json.loads(${pythonText(body)}),
})
request = urllib.request.Request(
    ${pythonText(url)},
    json.dumps({"routingKey": ${pythonText(routingKey)}, "message": message}).encode(),
    {"x-api-key": os.environ["KEY"], "content-type": "application/json"},
)
print(json.load(urllib.request.urlopen(request)))`;
}
