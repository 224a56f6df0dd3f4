// The storage page: the models that this browser keeps.
import { models } from 'millrace';

void models.list();
