/** Answers questions about the plan and the commands of a site. */
import type { ExportPart, SiteQuestion } from '../../ask-rpc.ts';
import type { Configuration } from '../config/configuration.ts';
import type { SiteIdentity } from '../identity.ts';
import type { TelemetryFeed } from '../telemetry/feed.ts';
import { latestAt } from '../telemetry/past.ts';
import { type ExplainSources, explain, modeOf } from './answer.ts';
import { exportHeadOf, exportPart } from './export.ts';
import { readTimeline, type TimelineSources } from './timeline.ts';

export interface QuestionSources extends ExplainSources, TimelineSources {
  identity: SiteIdentity;
  configuration: Pick<Configuration, 'state'>;
  feed: Pick<TelemetryFeed, 'latest'>;
}

/** See `SiteQuestion`. */
export async function answer(sources: QuestionSources, question: SiteQuestion): Promise<string | null> {
  sources.identity.be(question.siteId);
  await sources.registry.ready();
  switch (question.kind) {
    case 'explain':
      return explain(sources, question.query, question.asker);
    case 'telemetry':
      return readTelemetryAt(sources, question.atMs);
    case 'timeline':
      return readTimeline(sources, question);
    case 'export': {
      const { siteId, query } = question;
      const { lines, nextMs } = exportPart(sources, query);
      const head = query.isFirst
        ? [JSON.stringify(exportHeadOf(sources, siteId, query.fromMs, query.toMs))]
        : [];
      return JSON.stringify({ lines: [...head, ...lines], nextMs } satisfies ExportPart);
    }
  }
}

/** The telemetry that was the latest at a time; of a time to come, the one of now. */
function readTelemetryAt(sources: QuestionSources, atMs: number): string {
  const now = sources.clock.now();
  if (atMs >= now) return JSON.stringify(sources.feed.latest(now));
  const recorded = sources.planHistory.rows.at(atMs);
  const { registry, store, configuration } = sources;
  const mode = (recorded && modeOf(recorded.facts, atMs)) ?? configuration.state.config.operatingMode;
  return JSON.stringify(latestAt({ registry, store, atMs }, mode));
}
