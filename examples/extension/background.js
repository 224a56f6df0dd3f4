// A click on the extension's button opens its page in a tab: a popup would take the model with it when it closes.
chrome.action.onClicked.addListener(() => chrome.tabs.create({ url: 'page.html' }));
