/** Shows the OpenAPI document of this deployment. */
window.SwaggerUIBundle({
  url: '/api/v1/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  defaultModelRendering: 'model',
  defaultModelExpandDepth: 2,
  docExpansion: 'list',
  // Finds tags by a word.
  filter: '',
  // Calls are tried with the console or with the lines of /docs/rest-calls: this page keeps no credentials.
  supportedSubmitMethods: [],
  validatorUrl: null,
});
