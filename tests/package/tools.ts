// The two tools that the model in the box is offered, and what they return.
export const TOOLS = [
  {
    type: 'function' as const,
    function: {
      name: 'get_weather',
      description: 'Get the weather in a city.',
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
    },
  },
  {
    type: 'function' as const,
    function: {
      name: 'set_timer',
      description: 'Start a timer.',
      parameters: { type: 'object', properties: { minutes: { type: 'integer' } }, required: ['minutes'] },
    },
  },
];
export const EXECUTE: Record<string, object> = {
  get_weather: { degrees: 12, sky: 'cloudy' },
  set_timer: { status: 'started' },
};
