/** Shows the OpenAPI document of this deployment. */
const options = {
  // The font of the reader's system: other fonts would come from another origin.
  theme: {
    typography: { fontFamily: 'system-ui, sans-serif', headings: { fontFamily: 'system-ui, sans-serif' } },
  },
  expandResponses: '200,201,202',
  sortTagsAlphabetically: false,
  jsonSamplesExpandLevel: 3,
};
window.Redoc.init('/api/v1/openapi.json', options, document.getElementById('reference'));
