/** Answers questions about the plan and the commands of a site. */
import type { ExportPart, SiteQuestion } from '../../ask-rpc.ts';
import type { SiteIdentity } from '../identity.ts';
import { type ExplainSources, explain } from './answer.ts';
import { exportHeadOf, exportPart } from './export.ts';
import { readTimeline, type TimelineSources } from './timeline.ts';

export interface QuestionSources extends ExplainSources, TimelineSources {
  identity: SiteIdentity;
}

/** See `SiteQuestion`. */
export async function answer(sources: QuestionSources, question: SiteQuestion): Promise<string | null> {
  sources.identity.be(question.siteId);
  await sources.registry.ready();
  switch (question.kind) {
    case 'explain':
      return explain(sources, question.query, question.keyId);
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
